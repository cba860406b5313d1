// What another project would write: uses the library and says by its exit code whether it works.
#include <cstdint>
#include <cstdio>
#include <halfstep/compute/for_each.hpp>
#include <halfstep/numeric/float16.hpp>
#include <vector>

int main() {
  halfstep::Host host;
  // Enough for threads.
  std::vector<float> values(100000, 1.0f);
  halfstep::compute::for_each(host, 100000, [data = values.data()](std::int64_t i) {
    data[i] = static_cast<float>(halfstep::float16{65519.0f});
  });
  std::printf("65519 in float16 is %g\n", static_cast<double>(values.back()));
  return values.front() == 65504.0f && values.back() == 65504.0f ? 0 : 1;
}
