#include "run_policy.hpp"

template void gpt::run<halfstep::Float16ScaledPolicy>(const gpt::Settings&);
