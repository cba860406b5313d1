#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "support/temporary_folder.hpp"

// The example as people run it: the program, its data, its JSON.

BOOST_AUTO_TEST_SUITE(digits_tests)

namespace {

int run(const std::string& arguments) {
  return std::system((HALFSTEP_EXAMPLES_DIR "/digits " + arguments + " > /dev/null").c_str());
}

nlohmann::json read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_policy_reaches_96_percent_and_the_16_bit_ones_stay_within_a_point_of_float32) {
  const halfstep::test::TemporaryFolder folder;
  BOOST_REQUIRE(run("--policy all --json " + (folder / "digits.json").string()) == 0);
  const auto document = read(folder / "digits.json");
  BOOST_TEST(document.at("epochs") == 40);
  std::map<std::string, double> accuracy;
  for (const auto& run : document.at("runs")) {
    accuracy[run.at("policy").get<std::string>()] = run.at("validation_accuracy").get<double>();
    BOOST_TEST(run.at("predictions").size() == 360u);
    BOOST_TEST(run.at("attempts").get<int>() == 40 * 23);
    BOOST_TEST(run.at("steps").size() == 40u * 23u);
    BOOST_TEST(run.at("updates").get<int>() + run.at("skipped").get<int>() == run.at("attempts").get<int>());
    BOOST_TEST(run.contains("label_flips"));
  }
  BOOST_REQUIRE(accuracy.size() == 3u);
  for (const auto& [policy, reached] : accuracy) {
    BOOST_TEST(reached >= 0.96, policy << " reached " << reached);
    BOOST_TEST(std::abs(reached - accuracy.at("float32")) <= 0.01, policy << " reached " << reached);
  }
}

BOOST_AUTO_TEST_CASE(one_policy_and_one_seed_give_the_same_figures_every_time) {
  const halfstep::test::TemporaryFolder folder;
  for (const char* name : {"first.json", "second.json"}) {
    BOOST_REQUIRE(run("--policy float16 --epochs 2 --seed 5 --json " + (folder / name).string()) == 0);
  }
  auto first = read(folder / "first.json"), second = read(folder / "second.json");
  for (auto* document : {&first, &second}) document->at("runs").at(0).erase("timing");
  BOOST_TEST((first == second));
}

BOOST_AUTO_TEST_CASE(a_gate_ends_with_code_3_where_a_limit_is_not_kept_and_the_page_needs_no_network) {
  const halfstep::test::TemporaryFolder folder;
  const std::string page = (folder / "page.html").string();
  BOOST_TEST(run("--epochs 2 --max-flips 50% --max-loss-increase 0.5 --html " + page) == 0);
  std::ifstream file(page);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  BOOST_TEST(text.find("Every limit is kept") != std::string::npos);
  for (const char* outside : {"http", "src=", "href=", "<script"})
    BOOST_TEST(text.find(outside) == std::string::npos);
  // So large a rate that the three policies part ways.
  const int code = run("--epochs 3 --learning-rate 0.5 --max-flips 0% --margin 0 2> /dev/null");
  BOOST_TEST(WEXITSTATUS(code) == 3);
}

BOOST_AUTO_TEST_CASE(bad_options_and_missing_data_end_with_a_message_and_a_code) {
  BOOST_TEST(run("--policy float8 2> /dev/null") != 0);
  BOOST_TEST(run("--epochs 0 2> /dev/null") != 0);
  BOOST_TEST(run("--data /nowhere 2> /dev/null") != 0);
  BOOST_TEST(run("--epochs 1 --policy float32 --json /nowhere/x.json 2> /dev/null") != 0);
  BOOST_TEST(run("--max-flips much 2> /dev/null") != 0);
  BOOST_TEST(run("--policy float16 --max-flips 1% 2> /dev/null") != 0);
}

BOOST_AUTO_TEST_SUITE_END()
