// Stands in for examples/gpt/float32.cpp and bfloat16.cpp, each of which nvcc works on for as long as on float16.cpp.
#include <halfstep/error.hpp>
#include <halfstep/policy.hpp>

#include "run.hpp"

namespace gpt {

template <>
Results run<halfstep::Float32Policy>(const Settings&, const Tokenizer&) {
  throw halfstep::Error("this program was built for float16 alone");
}

template <>
Results run<halfstep::BFloat16Policy>(const Settings&, const Tokenizer&) {
  throw halfstep::Error("this program was built for float16 alone");
}

}  // namespace gpt
