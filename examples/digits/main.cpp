// Trains a small network on handwritten digits under one precision policy or under all three.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <halfstep/halfstep.hpp>

#include "digits.hpp"
#include "output.hpp"
#include "training.hpp"

#ifndef HALFSTEP_EXAMPLE_DATA
#define HALFSTEP_EXAMPLE_DATA "examples/data"
#endif

namespace {

int run(int argc, char** argv) {
  std::string policy = "all", json, data_folder = HALFSTEP_EXAMPLE_DATA;
  TrainingOptions options;
  CLI::App app{"Train a small network on 8x8 handwritten digits under a precision policy."};
  app.add_option("--policy", policy, "float32, bfloat16, float16, or all for a table of the three")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16", "all"}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the 1,437 training samples")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the first weights and of the order of samples")->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "samples an update")
      ->check(CLI::Range(1, 1437))
      ->capture_default_str();
  app.add_option("--json", json, "write every step's and the final figures to this file");
  app.add_option("--data", data_folder, "folder that holds digits.csv");
  CLI11_PARSE(app, argc, argv);

  const Digits data = Digits::read(data_folder + "/digits.csv");
  fmt::print("{} samples to train on, {} to validate on\n", data.training.size(), data.validation.size());
  std::vector<TrainingResult> results;
  const auto wanted = [&](std::string_view name) { return policy == "all" || policy == name; };
  if (wanted("float32")) results.push_back(train<halfstep::Float32Policy>(data, options));
  if (wanted("bfloat16")) results.push_back(train<halfstep::BFloat16Policy>(data, options));
  if (wanted("float16")) results.push_back(train<halfstep::Float16ScaledPolicy>(data, options));
  print_table(results);
  if (!json.empty()) write_json(json, results, options);
  return 0;
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
