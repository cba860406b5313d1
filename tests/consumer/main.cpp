// What another project would write: uses the library and says by its exit code whether it works.
#include <cstdio>
#include <halfstep/numeric/float16.hpp>

int main() {
  const halfstep::float16 half{65519.0f};
  std::printf("65519 in float16 is %g\n", static_cast<double>(static_cast<float>(half)));
  return static_cast<float>(half) == 65504.0f ? 0 : 1;
}
