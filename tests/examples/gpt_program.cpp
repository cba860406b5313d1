#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

// The example gpt as people run it, on a model and a text so small that a step takes milliseconds.

BOOST_AUTO_TEST_SUITE(gpt_program_tests)

namespace {

struct Finished {
  int code;
  std::string output, errors;
};

/// A folder with a text of some kilobytes, in which the program runs.
class Runs {
 public:
  Runs() {
    std::ofstream text(folder_ / "text.txt");
    for (int i = 0; i < 200; ++i)
      text << "and " << (i * 7) % 10 << " said to the " << (i % 3 == 0 ? "sea" : "stars") << ".\n";
    std::ofstream(folder_ / "empty.txt");
    std::ofstream(folder_ / "short.txt") << "too short";
  }

  Finished operator()(const std::string& arguments) const {
    const std::string line = "cd '" + folder_.path().string() + "' && " HALFSTEP_EXAMPLES_DIR "/gpt " +
                             small + arguments + " > output.txt 2> errors.txt";
    const int status = std::system(line.c_str());
    return {WEXITSTATUS(status), read("output.txt"), read("errors.txt")};
  }
  nlohmann::json json(const std::string& name) const { return nlohmann::json::parse(read(name)); }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static constexpr const char* small =
      "--layers 2 --width 32 --heads 4 --context 32 --batch 4 --warmup 2 --learning-rate 0.01 "
      "--evaluate-batches 4 ";
  halfstep::test::TemporaryFolder folder_;
};

double last_held_out(const nlohmann::json& document) {
  return document.at("evaluations").back().at("nats_per_byte").get<double>();
}

std::vector<double> losses(const nlohmann::json& document) {
  std::vector<double> result;
  for (const auto& step : document.at("steps")) result.push_back(step.at("loss").get<double>());
  return result;
}

void require_refusal(const Finished& finished, const std::vector<std::string>& words) {
  BOOST_TEST(finished.code != 0);
  for (const std::string& word : words) {
    BOOST_TEST(finished.errors.find(word) != std::string::npos,
               '"' << word << "\" is not in: " << finished.errors);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_learns_a_text_under_every_policy_and_goes_on_from_a_prompt) {
  const Runs run;
  for (const std::string policy : {"float32", "bfloat16", "float16"}) {
    const Finished finished = run("--policy " + policy +
                                  " --text text.txt --steps 150 --sample-every 50 --evaluate-every 50 "
                                  "--json run.json --generate 'and 7 said' --tokens 20 --temperature 0");
    BOOST_TEST_REQUIRE(finished.code == 0, finished.errors);
    const auto document = run.json("run.json");
    BOOST_TEST(document.at("policy") == policy);
    BOOST_TEST(losses(document).size() == 150u);
    BOOST_TEST(std::abs(losses(document).front() - std::log(256.0)) < 0.2);
    BOOST_TEST(last_held_out(document) < 0.6);
    BOOST_TEST(document.at("model_flop_utilisation").get<double>() > 0);
    BOOST_TEST(finished.output.find("and 7 said to the s") != std::string::npos, finished.output);
  }
}

BOOST_AUTO_TEST_CASE(a_run_that_was_stopped_and_resumed_has_the_losses_of_one_that_was_not) {
  const Runs run;
  const std::string options =
      "--policy float16 --text text.txt --dropout 0.1 --accumulate 2 --steps 12 --sample-every 0 ";
  BOOST_TEST_REQUIRE(run(options + "--json whole.json").code == 0);
  BOOST_TEST_REQUIRE(run(options + "--save run --stop-after 5 --json first.json").code == 0);
  require_refusal(run(options + "--save run"), {"run holds checkpoints", "--resume"});
  const Finished resumed = run(options + "--save run --resume --json second.json");
  BOOST_TEST_REQUIRE(resumed.code == 0, resumed.errors);
  BOOST_TEST(resumed.output.find("goes on from step 5") != std::string::npos, resumed.output);
  auto parts = losses(run.json("first.json"));
  for (const double loss : losses(run.json("second.json"))) parts.push_back(loss);
  BOOST_TEST(parts == losses(run.json("whole.json")), boost::test_tools::per_element());
  BOOST_TEST(last_held_out(run.json("second.json")) == last_held_out(run.json("whole.json")));
}

BOOST_AUTO_TEST_CASE(published_weights_bring_their_sizes_and_need_a_vocabulary_that_fits) {
  const Runs run;
  const std::string weights =
      "--policy float32 --steps 0 --weights " HALFSTEP_SOURCE_DIR "/tests/golden/gpt.safetensors ";
  require_refusal(run(weights + "--generate a"), {"256 tokens", "64", "--tokenizer"});
  // One byte a token: 'a' is 1, 'b' is 2 and so on, as far as 63.
  std::ofstream vocabulary(run / "letters.tiktoken");
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int id = 0; id < 64; ++id) {
    const auto byte = static_cast<unsigned>('@' + id);
    vocabulary << alphabet[byte >> 2] << alphabet[(byte & 3) << 4] << "== " << id << '\n';
  }
  vocabulary.close();
  const Finished finished =
      run(weights + "--width 30 --tokenizer letters.tiktoken --generate abc --tokens 30 --temperature 0");
  BOOST_TEST(finished.code == 0, finished.errors);
  BOOST_TEST(
      finished.output.find("2 layers, 32 wide, 4 heads, context 16, vocabulary 64") != std::string::npos,
      finished.output);
  BOOST_TEST(finished.output.find("\nabc") != std::string::npos, finished.output);
  require_refusal(run(weights + "--heads 5 --tokenizer letters.tiktoken --generate a"), {"5 heads", "width of 32"});
}

BOOST_AUTO_TEST_CASE(what_cannot_be_right_ends_with_a_message_and_a_code) {
  const Runs run;
  require_refusal(run("--text empty.txt --steps 2"), {"empty.txt", "empty"});
  require_refusal(run("--text short.txt --steps 2"), {"short.txt", "9 tokens", "32"});
  require_refusal(run("--text nowhere.txt --steps 2"), {"nowhere.txt: cannot be read"});
  require_refusal(run("--text text.txt --steps 2 --heads 5"), {"5 heads", "32"});
  require_refusal(run("--text text.txt --steps 0 --generate " + std::string(33, 'a')),
                  {"33 tokens", "context of 32"});
  require_refusal(run("--policy float8"), {"float8"});
  require_refusal(run("--resume"), {"--save"});
  require_refusal(run("--text text.txt --steps 0 --temperature -1"), {"temperature"});
  require_refusal(run("--tokenizer text.txt --text text.txt"), {"text.txt:1", "base64"});
  require_refusal(run("--text text.txt --steps 1 --json /nowhere/x.json"),
                  {"/nowhere/x.json: cannot be written"});
}

BOOST_AUTO_TEST_SUITE_END()
