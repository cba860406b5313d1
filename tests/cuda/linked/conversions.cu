// The kernels that convert between float and the 16-bit types: compile.sh looks at their instructions.
#include <halfstep/compute/cuda_convert.hpp>
#include <halfstep/numeric/bfloat16.hpp>
#include <halfstep/numeric/float16.hpp>

namespace {
using halfstep::bfloat16, halfstep::float16;

template <class From, class To>
void convert(halfstep::Cuda& cuda, const From* from, To* to) {
  halfstep::compute::convert(cuda, from, to, 1000);
}
}  // namespace

void convert_all(halfstep::Cuda& cuda, float* a, float16* b, bfloat16* c) {
  convert(cuda, a, b);
  convert(cuda, b, a);
  convert(cuda, a, c);
  convert(cuda, c, a);
}
