// What another project would write that saves and loads: it needs halfstep::state for it.
#include <halfstep/state/safetensors.hpp>
#include <span>
#include <vector>

int main(int, char** arguments) {
  const std::vector<float> weights{1.5f, -2.0f};
  const halfstep::TensorView tensor("weights", halfstep::dtype_of<float>, {2},
                                    std::as_bytes(std::span(weights)));
  halfstep::publish(halfstep::system_files(), arguments[1], [&](const halfstep::ByteSink& sink) {
    halfstep::safetensors::write(sink, std::span(&tensor, 1));
  });
  return halfstep::safetensors::read(arguments[1]).find("weights") != nullptr ? 0 : 1;
}
