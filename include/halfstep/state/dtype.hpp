#pragma once

#include <halfstep/tensor/dtype.hpp>
