// Trains a small network on handwritten digits under one precision policy or under all three, and compares
// them.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <halfstep/evidence/comparison_gate.hpp>
#include <halfstep/evidence/comparison_json.hpp>
#include <halfstep/evidence/comparison_page.hpp>
#include <halfstep/evidence/comparison_table.hpp>
#include <string>
#include <vector>

#include "digits.hpp"
#include "training.hpp"

#ifndef HALFSTEP_EXAMPLE_DATA
#define HALFSTEP_EXAMPLE_DATA "examples/data"
#endif

namespace {

constexpr int gate_failed = 3;

/// "0.5%" or "0.005". Throws CLI::ValidationError for anything else.
double share(const std::string& option, const std::string& text) {
  std::size_t end = 0;
  double value = -1;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
  }
  const std::string unit = text.substr(end);
  if (value < 0 || (unit != "" && unit != "%")) {
    throw CLI::ValidationError(option, "\"" + text + "\" is no share; write 0.5% or 0.005");
  }
  return unit == "%" ? value / 100 : value;
}

int run(int argc, char** argv) {
  std::string policy = "all", json, html, max_flips, max_loss_increase, data_folder = HALFSTEP_EXAMPLE_DATA;
  TrainingOptions training;
  CLI::App app{
      "Train a small network on 8x8 handwritten digits under a precision policy, and compare policies."};
  app.add_option("--policy", policy, "float32, bfloat16, float16, or all for a table of the three")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16", "all"}))
      ->capture_default_str();
  app.add_option("--epochs", training.epochs, "passes over the 1,437 training samples")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--seed", training.seed, "of the first weights and of the order of samples")
      ->capture_default_str();
  app.add_option("--batch-size", training.batch_size, "samples an update")
      ->check(CLI::Range(1, 1437))
      ->capture_default_str();
  app.add_option("--learning-rate", training.learning_rate, "the highest of the schedule")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--json", json, "write every step's and the final figures to this file");
  app.add_option("--html", html, "write the comparison with plots to this file, one page");
  app.add_option("--max-flips", max_flips,
                 "end with code 3 if a policy gives more of the validation samples another label than "
                 "float32, e.g. 0.5%");
  app.add_option("--max-loss-increase", max_loss_increase,
                 "end with code 3 if a policy's validation loss is larger than float32's by more, e.g. 2%");
  app.add_option("--margin", training.margin_tolerance,
                 "flips where float32's own two logits are closer than this are counted apart")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--data", data_folder, "folder that holds digits.csv");
  halfstep::ComparisonGate gate;
  try {
    app.parse(argc, argv);
    if (!max_flips.empty()) gate.max_flips = share("--max-flips", max_flips);
    if (!max_loss_increase.empty()) gate.max_loss_increase = share("--max-loss-increase", max_loss_increase);
    if ((!max_flips.empty() || !max_loss_increase.empty()) && policy != "all") {
      throw CLI::ValidationError("--policy", "a gate compares with float32: leave --policy at all");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }

  const Digits data = Digits::read(data_folder + "/digits.csv");
  fmt::print("{} samples to train on, {} to validate on\n", data.training.size(), data.validation.size());
  const halfstep::Comparison comparison = train(data, policy, training);
  fmt::print("\n{}", halfstep::comparison_table(comparison));
  if (!json.empty()) halfstep::write_text(json, nlohmann::ordered_json(comparison).dump(1) + '\n');

  const bool gated = !max_flips.empty() || !max_loss_increase.empty();
  const auto faults = gated ? halfstep::violations(comparison, gate) : std::vector<std::string>();
  if (!html.empty())
    halfstep::write_text(html, halfstep::comparison_page(comparison, gated ? &faults : nullptr));
  for (const std::string& fault : faults) fmt::print(stderr, "digits: {}\n", fault);
  return faults.empty() ? 0 : gate_failed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "digits: {}\n", error.what());
    return 1;
  }
}
