#include <boost/test/unit_test.hpp>
#include <string>

#include <halfstep/state/training_state.hpp>

BOOST_AUTO_TEST_SUITE(training_state_tests)

using namespace halfstep;

namespace {

/// No two fields of one object have the same value.
TrainingState every_field() {
  TrainingState state;
  state.library = "1.2";
  state.policy = "float16";
  state.compute_type = "f16";
  state.scaler = "DynamicScaler";
  state.optimizer = "AdamW";
  state.step.scaler = {.scale = 1024.0f, .growth_tracker = 3, .hysteresis_left = 2};
  state.step.update_number = 10;
  state.step.attempts = 20;
  state.step.skipped = 8;
  state.step.skipped_in_a_row = 1;
  state.step.empty = 2;
  state.step.schedule_position = 18;
  state.last_overflow = {.attempt = 19, .tensor = "hidden.weight", .index = 5, .scale = 2048.0f};
  state.random_seed = 18446744073709551615u;
  state.random_passes = 40;
  state.window = {.loss_sum = 1.5, .valid_count = 6, .micro_batches = 2, .normalizer = 4.0, .seed = 256.0f};
  state.data = LoaderPosition{
      .epoch = 3, .offset = 4, .seed = 5, .micro_batches = 31, .dataset_size = 44, .dataset = "rings"};
  state.user["note"] = "mine";
  return state;
}

const std::string text_of_every_field =
    R"({"counters":{"attempts":20,"empty":2,"schedule_position":18,"skipped":8,"skipped_in_a_row":1,)"
    R"("update_number":10},"data":{"dataset":"rings","dataset_size":44,"epoch":3,"micro_batches":31,"offset":4,)"
    R"("seed":5},"format":1,"last_overflow":{"attempt":19,"index":5,"scale":"0x1p+11","tensor":"hidden.weight"},)"
    R"("library":"1.2","optimizer":"AdamW","policy":{"compute_type":"f16","name":"float16",)"
    R"("scaler":"DynamicScaler"},"random":{"passes":40,"seed":18446744073709551615},)"
    R"("scaler":{"growth_tracker":3,"hysteresis_left":2,"scale":"0x1p+10"},"user":{"note":"mine"},)"
    R"("window":{"loss_sum":"0x1.8p+0","micro_batches":2,"normalizer":"0x1p+2","seed":"0x1p+8","valid_count":6}})";

}  // namespace

BOOST_AUTO_TEST_CASE(checkpoints_of_this_format_have_this_text_and_are_read_again) {
  BOOST_TEST(detail::to_json(every_field()).dump() == text_of_every_field);
  const TrainingState read = detail::training_state(nlohmann::json::parse(text_of_every_field));
  BOOST_TEST(detail::to_json(read).dump() == text_of_every_field);
}

BOOST_AUTO_TEST_SUITE_END()
