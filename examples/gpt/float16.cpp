#include "run_policy.hpp"

template gpt::Results gpt::run<halfstep::Float16ScaledPolicy>(const gpt::Settings&, const gpt::Tokenizer&);
