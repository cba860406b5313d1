#pragma once

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace against {

/// A script of tests/benchmarks/pytorch/ that does one piece of work for each line it is sent, run by the Python that
/// HALFSTEP_PYTHON names in the environment, or python3. Where there is no PyTorch it is not there.
class PyTorchPeer {
 public:
  PyTorchPeer(const std::string& script, const std::vector<std::string>& arguments) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(ends[1], 0);
      ::dup2(ends[1], 1);
      const char* const python = std::getenv("HALFSTEP_PYTHON");
      const std::string program = python == nullptr ? "python3" : python;
      const std::string path = std::string(HALFSTEP_BENCHMARKS_DIR "/pytorch/") + script;
      std::vector<char*> words{const_cast<char*>(program.c_str()), const_cast<char*>(path.c_str())};
      for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
      words.push_back(nullptr);
      ::execvp(words[0], words.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    from_ = ::fdopen(::dup(ends[0]), "r");
    to_ = ::fdopen(ends[0], "w");
    const std::string greeting = line();
    if (greeting.starts_with("ready")) version_ = greeting.substr(6);
  }
  PyTorchPeer(const PyTorchPeer&) = delete;
  PyTorchPeer& operator=(const PyTorchPeer&) = delete;
  ~PyTorchPeer() {
    if (to_ != nullptr) std::fclose(to_);
    if (from_ != nullptr) std::fclose(from_);
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
  }

  explicit operator bool() const { return !version_.empty(); }
  const std::string& version() const { return version_; }

  /// The number that it answers to this word.
  double ask(const char* word) {
    std::fprintf(to_, "%s\n", word);
    std::fflush(to_);
    return std::strtod(line().c_str(), nullptr);
  }

 private:
  std::string line() {
    char text[256] = "";
    if (from_ == nullptr || std::fgets(text, sizeof text, from_) == nullptr) return {};
    return text;
  }

  ::pid_t child_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  std::string version_;
};

}  // namespace against
