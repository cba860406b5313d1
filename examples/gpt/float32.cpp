#include "run_policy.hpp"

template void gpt::run<halfstep::Float32Policy>(const gpt::Settings&);
