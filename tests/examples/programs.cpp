#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/temporary_folder.hpp"

// The small examples run and print what they are there to show.

BOOST_AUTO_TEST_SUITE(programs_tests)

namespace {

std::string output_of(const std::string& program) {
  FILE* pipe = popen((HALFSTEP_EXAMPLES_DIR "/" + program).c_str(), "r");
  BOOST_REQUIRE(pipe != nullptr);
  std::string text;
  for (char buffer[256]; std::fgets(buffer, sizeof buffer, pipe) != nullptr;) text += buffer;
  BOOST_TEST(pclose(pipe) == 0);
  return text;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(quickstart_prints_loss_norm_scale_and_outcome) {
  const std::string text = output_of("quickstart");
  for (const char* word : {"step 10", "applied", "loss", "gradient norm", "scale 65536"}) {
    BOOST_TEST(holds(text, word), word << " is not in: " << text);
  }
}

BOOST_AUTO_TEST_CASE(custom_policy_trains_under_its_own_policy_and_one_of_the_librarys) {
  const std::string text = output_of("custom_policy");
  for (const char* word : {"cautious float16", "scale 1024", "scale 65536", "step 400"}) {
    BOOST_TEST(holds(text, word), word << " is not in: " << text);
  }
}

BOOST_AUTO_TEST_CASE(resume_ends_with_the_same_bits) {
  const halfstep::test::TemporaryFolder folder;
  const std::string text = output_of("resume " + (folder / "run").string());
  BOOST_TEST(holds(text, "goes on from step 125"), text);
  BOOST_TEST(holds(text, "the same, bit for bit"), text);
}

BOOST_AUTO_TEST_SUITE_END()
