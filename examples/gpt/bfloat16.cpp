#include "run_policy.hpp"

template void gpt::run<halfstep::BFloat16Policy>(const gpt::Settings&);
