#pragma once

#include <string_view>

namespace halfstep {

/// Of the library; the build checks that it is the project's.
inline constexpr std::string_view version = "0.1.0";

}  // namespace halfstep
