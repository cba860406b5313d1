#!/usr/bin/env bash
# check.sh <source> <compiler> <flag>...
# With -DHALFSTEP_CONTROL the source must compile. Without, it must not, and the compiler's message must hold every text
# that a line "// expect: <text>" of the source names.
set -u
source=$1
shift
export LC_ALL=C

if ! message=$("$@" -fsyntax-only -DHALFSTEP_CONTROL "$source" 2>&1); then
  printf 'The control does not compile, so a failure of the mistake would prove nothing:\n%s\n' "$message"
  exit 1
fi
if message=$("$@" -fsyntax-only "$source" 2>&1); then
  echo "The mistake compiles."
  exit 1
fi

texts=$(sed -n 's|^// expect: *||p' "$source")
if [ -z "$texts" ]; then
  echo "The source expects no text: add a line '// expect: <text of the message>'."
  exit 1
fi
faults=0
while IFS= read -r text; do
  if ! grep -qF -- "$text" <<<"$message"; then
    echo "The compiler did not say: $text"
    faults=1
  fi
done <<<"$texts"
if [ $faults = 1 ]; then
  printf 'It said:\n%s\n' "$message" | head -n 60
  exit 1
fi
echo "Refused as expected:"
echo "$texts"
