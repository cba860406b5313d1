#pragma once

#include <concepts>
#include <halfstep/evidence/step_report.hpp>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfstep {

/// Takes the reports of a run's windows, in order: JsonLinesSink, CsvSink, TensorBoardSink, ConsoleSink, or a
/// type of one's own.
template <class S>
concept LogSink = std::move_constructible<S> && requires(S sink, const StepReport& report) {
  sink.write(report);
};

/// Several sinks at once:
///
///   Log log(ConsoleSink{{.every = 50}}, CsvSink{"run.csv"}, TensorBoardSink{"runs/first"});
///   for (auto& batch : loader) log.write(trainer.step(batch).report());
class Log {
 public:
  template <class... Sinks>
  requires(LogSink<Sinks>&&...) explicit Log(Sinks... sinks) { (add(std::move(sinks)), ...); }

  template <LogSink Sink>
  void add(Sink sink) {
    sinks_.push_back(std::make_unique<Held<Sink>>(std::move(sink)));
  }
  void write(const StepReport& report) {
    for (const auto& sink : sinks_) sink->write(report);
  }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual void write(const StepReport& report) = 0;
  };
  template <class Sink>
  struct Held final : Any {
    explicit Held(Sink the_sink) : sink(std::move(the_sink)) {}
    void write(const StepReport& report) override { sink.write(report); }
    Sink sink;
  };

  std::vector<std::unique_ptr<Any>> sinks_;
};

}  // namespace halfstep
