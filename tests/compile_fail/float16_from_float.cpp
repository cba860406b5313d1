// A float must not become a float16 unasked: the rounding would be silent.
// expect: conversion from
// expect: halfstep::float16
#include <halfstep/numeric/float16.hpp>

#if defined(HALFSTEP_CONTROL)
const halfstep::float16 half{1.0f};
#else
const halfstep::float16 half = 1.0f;
#endif
