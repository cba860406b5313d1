#include "run_policy.hpp"

template gpt::Results gpt::run<halfstep::Float32Policy>(const gpt::Settings&, const gpt::Tokenizer&);
