#include "run_policy.hpp"

template gpt::Results gpt::run<halfstep::BFloat16Policy>(const gpt::Settings&, const gpt::Tokenizer&);
