#include <boost/test/unit_test.hpp>
#include <halfstep/device/host.hpp>
#include <halfstep/error.hpp>
#include <halfstep/nn/linear.hpp>
#include <halfstep/nn/parameter_store.hpp>
#include <string>
#include <vector>

#include "support/refusal.hpp"

BOOST_AUTO_TEST_SUITE(parameter_store_tests)

using namespace halfstep;
using namespace halfstep::test;

namespace {

struct Block {
  Linear inner{3, 5};
  Parameter gain{Shape{5}, Initializer::ones()};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("inner", inner);
    visit("gain", gain);
  }
};

struct Model {
  std::vector<Block> blocks{2};
  Linear head{5, 2, {.bias = false}};
  bool head_first = false;
  template <class Visitor>
  void parameters(Visitor&& visit) {
    if (head_first) visit("head", head);
    visit("blocks", blocks);
    if (!head_first) visit("head", head);
  }
};

struct NoParameters {
  template <class Visitor>
  void parameters(Visitor&&) {}
};

/// One layer under two names.
struct NamedTwice {
  Linear layer{2, 2};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("first", layer);
    visit("second", layer);
  }
};

struct SameName {
  Linear a{1, 1}, b{1, 1};
  template <class Visitor>
  void parameters(Visitor&& visit) {
    visit("layer", a);
    visit("layer", b);
  }
};

template <class Store>
std::vector<float> master(const Store& store, const char* name) {
  const auto values = store.master(store.find(name));
  return {values.begin(), values.end()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(names_are_the_path_through_the_model_in_its_order) {
  Host host;
  Model model;
  const ParameterStore<float, Host> store(host, model, 1);
  std::vector<std::string> names;
  for (const ParameterInfo& info : store.infos()) names.push_back(info.name);
  const std::vector<std::string> expected{
      "blocks.0.inner.weight", "blocks.0.inner.bias", "blocks.0.gain", "blocks.1.inner.weight",
      "blocks.1.inner.bias",   "blocks.1.gain",       "head.weight"};
  BOOST_TEST(names == expected);
  BOOST_TEST((store.infos()[0].shape == Shape{5, 3}));
  BOOST_TEST(model.blocks[1].gain.index() == 5);
  BOOST_TEST(store.find("blocks.1.gain") == 5);
  BOOST_TEST(Parameter().index() == -1);
}

BOOST_AUTO_TEST_CASE(segments_are_aligned_and_do_not_overlap) {
  Host host;
  Model model;
  const ParameterStore<float16, Host> store(host, model, 1);
  std::int64_t end = 0;
  for (std::size_t i = 0; i < store.segments().size(); ++i) {
    const compute::Segment segment = store.segments()[i];
    BOOST_TEST(segment.offset % compute::segment_alignment == 0);
    BOOST_TEST(segment.offset >= end);
    BOOST_TEST(segment.size == store.infos()[i].shape.size());
    BOOST_TEST(store.master(static_cast<int>(i)).data() == store.masters() + segment.offset);
    BOOST_TEST(store.gradient(static_cast<int>(i)).data() == store.gradients() + segment.offset);
    BOOST_TEST(store.working(static_cast<int>(i)).data() == store.working() + segment.offset);
    end = segment.offset + segment.size;
  }
  BOOST_TEST(store.size() >= end);
  BOOST_TEST(store.size() % compute::segment_alignment == 0);
  std::int64_t covered = 0;
  for (const compute::SegmentChunk& chunk : store.chunks()) covered += chunk.size;
  BOOST_TEST(covered == 2 * (15 + 5 + 5) + 10);
}

BOOST_AUTO_TEST_CASE(padding_between_segments_is_zero) {
  Host host;
  Model model;
  const ParameterStore<float16, Host> store(host, model, 1);
  std::vector<bool> used(static_cast<std::size_t>(store.size()), false);
  for (const compute::Segment& segment : store.segments()) {
    for (std::int64_t i = 0; i < segment.size; ++i) used[static_cast<std::size_t>(segment.offset + i)] = true;
  }
  for (std::int64_t i = 0; i < store.size(); ++i) {
    if (used[static_cast<std::size_t>(i)]) continue;
    BOOST_TEST(store.masters()[i] == 0.0f);
    BOOST_TEST(store.gradients()[i] == 0.0f);
    BOOST_TEST(store.working()[i].bits() == 0);
  }
}

BOOST_AUTO_TEST_CASE(first_values_depend_on_seed_and_name_alone) {
  Host host;
  Model model, same, reordered, other_seed;
  reordered.head_first = true;
  reordered.blocks.resize(3);
  const ParameterStore<float, Host> store(host, model, 7), again(host, same, 7), moved(host, reordered, 7),
      changed(host, other_seed, 8);
  for (const ParameterInfo& info : store.infos()) {
    const char* name = info.name.c_str();
    BOOST_TEST(master(store, name) == master(again, name));
    BOOST_TEST(master(store, name) == master(moved, name));
    if (info.name.find("gain") == std::string::npos) BOOST_TEST(master(store, name) != master(changed, name));
  }
  BOOST_TEST(master(store, "blocks.0.inner.weight") != master(store, "blocks.1.inner.weight"));
  BOOST_TEST(master(store, "blocks.0.gain") == std::vector<float>(5, 1.0f));
}

BOOST_AUTO_TEST_CASE(the_working_copy_is_the_masters_rounded) {
  Host host;
  Model model;
  ParameterStore<float16, Host> store(host, model, 1);
  const auto agree = [&] {
    bool all = true;
    for (int p = 0; p < static_cast<int>(store.infos().size()); ++p) {
      for (std::int64_t i = 0; i < store.master(p).size(); ++i) {
        all = all && store.working(p)[i].bits() == float16(store.master(p)[i]).bits();
      }
    }
    return all;
  };
  BOOST_TEST(agree());
  store.master(2)[1] = 0.1f;
  BOOST_TEST(!agree());
  store.refresh_working_copy(2);
  BOOST_TEST(agree());
  BOOST_TEST(store.working_copy_bytes() == store.master_bytes() / 2);
}

BOOST_AUTO_TEST_CASE(in_float32_the_masters_are_the_working_copy) {
  Host host;
  Model model;
  const ParameterStore<float, Host> store(host, model, 1);
  BOOST_TEST(store.working() == store.masters());
  BOOST_TEST(store.working_copy_bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(gradients_are_marked_once_and_forgotten_together) {
  Host host;
  Model model;
  ParameterStore<float, Host> store(host, model, 1);
  BOOST_TEST(!store.mark_gradient(3));
  BOOST_TEST(store.mark_gradient(3));
  BOOST_TEST(store.has_gradient()[3] == 1);
  BOOST_TEST(store.has_gradient()[2] == 0);
  store.clear_gradients();
  BOOST_TEST(!store.mark_gradient(3));
}

BOOST_AUTO_TEST_CASE(models_without_parameters_and_doubled_or_unknown_names_are_refused) {
  Host host;
  NoParameters empty;
  const auto refused = [&](auto& refused_model) {
    return refusal<ConfigurationError>([&] { ParameterStore<float, Host>(host, refused_model, 1); });
  };
  check_holds(refused(empty), {"names no parameters"});
  SameName same;
  check_holds(refused(same), {"\"layer.weight\""});
  NamedTwice twice;
  check_holds(refused(twice), {"named twice, \"first.weight\" and \"second.weight\""});
  Model model;
  const ParameterStore<float, Host> store(host, model, 1);
  check_holds(refusal<ConfigurationError>([&] { store.find("head.bias"); }),
              {"\"head.bias\"", "\"head.weight\""});
}

BOOST_AUTO_TEST_SUITE_END()
