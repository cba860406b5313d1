// What another project would write that keeps a log: it needs halfstep::evidence for it.
#include <halfstep/evidence/console.hpp>
#include <halfstep/evidence/json_lines.hpp>
#include <halfstep/evidence/log.hpp>

int main(int, char** arguments) {
  halfstep::JsonLinesSink file(arguments[1]);
  halfstep::Log log(halfstep::ConsoleSink{}, std::move(file));
  log.write(halfstep::StepReport{});
}
