#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <halfstep/error.hpp>
#include <halfstep/state/file_system.hpp>
#include <span>

namespace halfstep {

/// Takes the bytes of a file, piece by piece from its beginning.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// Replaces the file at `path` by what `writer` puts into its sink, all or nothing, whatever happens in
/// between: who opens `path` finds the old file or the new one, never a mix, and once this has returned, the
/// new one survives a loss of power.
///
/// The bytes go to a temporary file in the same folder, which is synced, closed and renamed to `path`; then
/// the folder is synced. Temporaries that a killed process has left in the folder are removed first, unless
/// another process is publishing there at that moment. Of two processes that publish the same path, the later
/// rename wins.
///
/// Throws CheckpointError with the path and the system's reason where a call fails (disk full, no permission,
/// ...), and whatever `writer` throws. The temporary is then removed and the old file is untouched; only if
/// the very last call fails, the sync of the folder, is the new file there already, and the message says so.
void publish(FileSystem& files, const std::filesystem::path& path,
             const std::function<void(const ByteSink&)>& writer);

/// Creates a folder with those above it, so that they survive a loss of power. Throws CheckpointError.
void make_folder(FileSystem& files, const std::filesystem::path& folder);

}  // namespace halfstep

#include <halfstep/state/detail/publish.hpp>
