#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include <halfstep/state/checkpoints.hpp>

#include "state/faulty_files.hpp"
#include "state/file_bytes.hpp"
#include "state/ring_trainers.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(checkpoints_tests)

using namespace halfstep;
using halfstep::test::first_samples;

namespace {

using Ring = test::RingInHalf;

std::vector<std::byte> weights(const Ring& trainer) {
  return capture(trainer).tensors.at(0).bytes;
}

std::vector<std::int64_t> numbers(const std::filesystem::path& folder) {
  std::vector<std::int64_t> result;
  for (const Generation& generation : Generations(folder).list()) result.push_back(generation.number);
  return result;
}

using Numbers = std::vector<std::int64_t>;

/// Changes a byte of a tensor: the header stays sound.
void damage(const std::filesystem::path& folder, std::int64_t number) {
  const auto path = Generations(folder).path_of(number);
  std::string text = test::content(path);
  text.back() = static_cast<char>(text.back() ^ 4);
  test::put(path, text);
}

/// All bits of a trainer, those of its open window too.
std::string bits(const Ring& trainer) { return test::written(capture(trainer)); }

/// A trainer that has come somewhere; with an open window, or none.
Ring under_way(std::uint64_t seed, int steps, bool open) {
  const auto batch = first_samples(8);
  Ring trainer{{}, {}, {.seed = seed}};
  for (int i = 0; i < steps; ++i) trainer.step(batch);
  if (open) trainer.accumulate(batch);
  return trainer;
}

}  // namespace

BOOST_AUTO_TEST_CASE(resuming_from_a_folder_without_checkpoints_leaves_the_trainer_as_it_is) {
  const test::TemporaryFolder folder;
  Ring trainer{{}};
  const auto before = weights(trainer);
  Checkpoints checkpoints(folder.path() / "none yet");
  BOOST_TEST(!checkpoints.resume(trainer).has_value());
  BOOST_TEST((weights(trainer) == before));
  BOOST_CHECK_THROW(trainer.load(folder.path() / "none yet"), CheckpointError);
}

BOOST_AUTO_TEST_CASE(a_save_in_the_background_holds_the_state_at_the_call_and_not_what_came_after) {
  const test::TemporaryFolder folder;
  const auto batch = first_samples(8);
  Ring trainer{{}};
  trainer.step(batch);
  const auto at_the_call = weights(trainer);
  Checkpoints checkpoints(folder.path(), {.background = true});
  checkpoints.save(trainer);
  for (int i = 0; i < 5; ++i) trainer.step(batch);
  checkpoints.wait();
  Ring resumed{{}};
  BOOST_REQUIRE(checkpoints.resume(resumed).has_value());
  BOOST_TEST((weights(resumed) == at_the_call));
  BOOST_TEST(resumed.state().attempts == 1);
}

BOOST_AUTO_TEST_CASE(a_failed_save_in_the_background_surfaces_at_the_next_call_and_the_run_goes_on) {
  const test::TemporaryFolder folder;
  const auto batch = first_samples(8);
  test::FaultyFiles disk;
  Ring trainer{{}};
  Checkpoints checkpoints(folder.path(), {.background = true}, disk);
  checkpoints.save(trainer);
  checkpoints.wait();
  disk.fail_calls_named("write", ENOSPC);
  trainer.step(batch);
  checkpoints.save(trainer);
  BOOST_CHECK_THROW(checkpoints.save(trainer), CheckpointError);
  disk.fail_no_more();
  BOOST_TEST(trainer.step(batch).report().applied());
  Ring from_before{{}};
  BOOST_REQUIRE(checkpoints.resume(from_before).has_value());
  BOOST_TEST(from_before.state().attempts == 0);
  checkpoints.save(trainer);
  checkpoints.wait();
  Ring resumed{{}};
  BOOST_REQUIRE(checkpoints.resume(resumed).has_value());
  BOOST_TEST(resumed.state().attempts == 2);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_a_checkpoint_error_that_names_the_file_and_leaves_the_generation_before) {
  const test::TemporaryFolder folder;
  test::FaultyFiles disk;
  Ring trainer{{}};
  Checkpoints checkpoints(folder.path(), {}, disk);
  checkpoints.save(trainer);
  disk.fail_calls_named("write", ENOSPC);
  BOOST_CHECK_EXCEPTION(checkpoints.save(trainer), CheckpointError, [&](const CheckpointError& error) {
    return std::string(error.what()).find(folder.path().string()) != std::string::npos;
  });
  BOOST_TEST(checkpoints.generations().list().size() == 1u);
  Ring resumed{{}};
  BOOST_TEST(checkpoints.resume(resumed).has_value());
}

BOOST_AUTO_TEST_CASE(the_last_generations_and_the_best_stay) {
  const test::TemporaryFolder folder;
  const auto batch = first_samples(8);
  Ring trainer{{}};
  Checkpoints checkpoints(folder.path(), {.keep_last = 2, .keep_best = KeepBest{.metric = "loss"}});
  const std::vector<double> losses{3, 1, 2, 5, 4};
  for (const double loss : losses) {
    trainer.step(batch);
    checkpoints.save(trainer, {}, loss);
  }
  const auto kept = checkpoints.generations().list();
  BOOST_REQUIRE(kept.size() == 3u);
  BOOST_TEST(kept[0].number == 2);
  BOOST_TEST(kept[1].number == 4);
  BOOST_TEST(kept[2].number == 5);
  BOOST_TEST(checkpoints.generations().best().value().number == 2);
}

BOOST_AUTO_TEST_CASE(a_damaged_generation_is_passed_over_and_named) {
  const test::TemporaryFolder folder;
  const auto batch = first_samples(8);
  Ring trainer{{}};
  Checkpoints checkpoints(folder.path());
  checkpoints.save(trainer);
  trainer.step(batch);
  checkpoints.save(trainer);
  const auto newest = checkpoints.generations().list().back().path;
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) - 1);
  Ring resumed{{}};
  const auto from = checkpoints.resume(resumed);
  BOOST_REQUIRE(from.has_value());
  BOOST_TEST(from->generation == 1);
  BOOST_REQUIRE(from->skipped.size() == 1u);
  BOOST_TEST(from->skipped[0].path == newest);
  BOOST_TEST(resumed.state().attempts == 0);
}

BOOST_AUTO_TEST_CASE(what_a_run_was_resumed_from_stays_until_enough_newer_ones_are_saved) {
  const test::TemporaryFolder folder;
  Ring trainer{{}};
  Checkpoints checkpoints(folder.path());
  checkpoints.save(trainer);
  checkpoints.save(trainer);
  damage(folder.path(), 2);
  BOOST_TEST(checkpoints.resume(trainer).value().generation == 1);
  checkpoints.save(trainer);
  BOOST_TEST(numbers(folder.path()) == (Numbers{1, 2, 3}));
  damage(folder.path(), 3);
  BOOST_TEST(checkpoints.resume(trainer).value().generation == 1);
  checkpoints.save(trainer);
  checkpoints.save(trainer);
  BOOST_TEST(numbers(folder.path()) == (Numbers{4, 5}));
}

BOOST_AUTO_TEST_CASE(the_short_form_keeps_two_of_its_own_and_removes_nobody_elses) {
  const test::TemporaryFolder folder;
  Ring trainer{{}};
  const std::vector<double> losses{1, 2, 3, 4};
  {
    Checkpoints checkpoints(folder.path(), {.keep_last = 3, .keep_best = KeepBest{.metric = "loss"}});
    for (const double loss : losses) checkpoints.save(trainer, {}, loss);
  }
  for (int i = 0; i < 3; ++i) trainer.save(folder.path());
  BOOST_TEST(numbers(folder.path()) == (Numbers{1, 2, 3, 4, 6, 7}));
  BOOST_TEST(trainer.load(folder.path()).generation == 7);
  damage(folder.path(), 7);
  BOOST_TEST(trainer.load(folder.path()).generation == 6);
  trainer.save(folder.path());
  BOOST_TEST(numbers(folder.path()) == (Numbers{1, 2, 3, 4, 6, 7, 8}));
  trainer.save(folder.path());
  BOOST_TEST(numbers(folder.path()) == (Numbers{1, 2, 3, 4, 8, 9}));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_does_not_fit_says_which_file_it_is) {
  const test::TemporaryFolder folder;
  Ring trainer{{}};
  trainer.save(folder.path());
  test::RingInBFloat16 other{{}};
  BOOST_CHECK_EXCEPTION(other.load(folder.path()), CheckpointError, [](const CheckpointError& error) {
    return std::string(error.what()).find("generation-") != std::string::npos;
  });
  Checkpoints checkpoints(folder.path());
  const auto resumed = checkpoints.resume_as(other);
  BOOST_REQUIRE(resumed.has_value());
  BOOST_TEST(!resumed->notes.empty());
}

BOOST_AUTO_TEST_CASE(a_run_that_is_read_from_disk_is_the_one_that_a_file_in_memory_gives) {
  const auto batch = first_samples(8);
  for (const int windows : {0, 1, 2, 3}) {
    const test::TemporaryFolder folder;
    const Ring saved = under_way(1, 3, windows % 2 == 1);
    Checkpoints checkpoints(folder.path());
    checkpoints.save(saved, {.user_tensors = {{"average", DType::u8, {3}, std::vector<std::byte>(3, std::byte{7})}}});
    const StateFile file = safetensors::read(checkpoints.generations().path_of(1));
    Ring from_disk = under_way(9, 5, windows / 2 == 1), from_memory = under_way(9, 5, windows / 2 == 1);
    for (const bool anew : {false, true}) {
      BOOST_TEST_CONTEXT("windows " << windows << ", moments " << (anew ? "anew" : "as saved")) {
        const auto resumed =
            anew ? checkpoints.resume_as(from_disk, {.reset_optimizer = true}) : checkpoints.resume(from_disk);
        if (anew) restore_as(from_memory, file, {.reset_optimizer = true});
        else restore(from_memory, file);
        BOOST_TEST((bits(from_disk) == bits(from_memory)));
        BOOST_TEST((anew || bits(from_disk) == bits(saved)));
        BOOST_TEST_REQUIRE(resumed->user_tensors.size() == 1u);
        BOOST_TEST((resumed->user_tensors[0].bytes == std::vector<std::byte>(3, std::byte{7})));
        from_disk.step(batch);
        from_memory.step(batch);
        BOOST_TEST((bits(from_disk) == bits(from_memory)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_load_that_fails_anywhere_leaves_every_bit_of_the_trainer) {
  const auto batch = first_samples(8);
  const test::TemporaryFolder folder;
  test::FaultyFiles disk;
  const Ring saved = under_way(1, 3, true);
  Checkpoints checkpoints(folder.path(), {}, disk);
  checkpoints.save(saved);
  const auto path = checkpoints.generations().path_of(1);
  const std::string sound = test::content(path);
  for (const bool open : {false, true}) {
    const auto fails = [&](const auto& load) {
      Ring trainer = under_way(9, 5, open), twin = under_way(9, 5, open);
      bool failed = false;
      try {
        load(trainer);
      } catch (const CheckpointError&) {
        failed = true;
      }
      if (!failed) return false;
      BOOST_TEST((bits(trainer) == bits(twin)));
      trainer.step(batch);
      twin.step(batch);
      BOOST_TEST((bits(trainer) == bits(twin)));
      return true;
    };
    // A bit in each tensor, also in those that are left behind.
    for (const auto& tensor : safetensors::read_header(path).tensors) {
      std::string damaged = sound;
      damaged[static_cast<std::size_t>(tensor.offset)] ^= 1;
      test::put(path, damaged);
      BOOST_TEST_INFO_SCOPE(tensor.name);
      BOOST_TEST(fails([&](Ring& trainer) { checkpoints.resume(trainer); }));
      BOOST_TEST(fails([&](Ring& trainer) { checkpoints.resume_as(trainer, {.reset_optimizer = true}); }));
    }
    test::put(path, sound);
    // Each call to the disk.
    Ring other{{}};
    disk.calls.clear();
    checkpoints.resume(other);
    const auto calls = static_cast<int>(disk.calls.size());
    int failures = 0;
    for (int at = 0; at < calls; ++at) {
      disk.fail_at(at, test::FaultyFiles::Fault::once, EIO);
      if (fails([&](Ring& trainer) { checkpoints.resume(trainer); })) ++failures;
    }
    disk.fail_no_more();
    BOOST_TEST(failures > 10);
  }
}

BOOST_AUTO_TEST_SUITE_END()
