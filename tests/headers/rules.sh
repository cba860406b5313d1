#!/usr/bin/env bash
# rules.sh <include folder>: the rules of the house that a text search can see.
set -u
cd "$1" || exit 1
faults=0
# fault <text> <lines that show it>
fault() {
  if [ -n "$2" ]; then
    printf '%s\n%s\n\n' "$1" "$2"
    faults=1
  fi
}
headers=$(find halfstep -name '*.hpp' | sort)

fault "No #pragma once:" "$(grep -L '^#pragma once$' $headers)"
fault "A macro whose name is not HALFSTEP_*:" \
  "$(grep -nE '^ *# *define ' $headers | grep -vE '# *define HALFSTEP_')"
fault "The user's macros are not ours to remove:" "$(grep -nE '^ *# *undef ' $headers | grep -vE '# *undef HALFSTEP_')"
fault "-ffast-math deletes this test for finiteness; test exponent bits (halfstep::is_finite):" \
  "$(grep -nE '(std::|\b__builtin_)(isfinite|isnan|isinf)\b' $headers | grep -vE '^[^:]*:[0-9]+: *//')"
fault "A macro min or max would take this, write (std::min)(a, b):" \
  "$(grep -nE '(^|[^(A-Za-z0-9_:])([A-Za-z_][A-Za-z0-9_]*::)*(min|max)\(|>::(min|max)\(' $headers | grep -vE '^[^:]*:[0-9]+: *//')"
fault "A CUDA header where nobody has asked for CUDA (guard it by __CUDACC__):" \
  "$(for header in $headers; do
       case $header in *cuda*) continue ;; esac
       awk -v header="$header" '
         /^ *# *if/ { depth++; if (/CUDA/) guarded[depth] = 1 }
         /^ *# *include *<(cuda|cublas|cub\/|thrust\/system\/cuda)/ {
           for (d = 1; d <= depth; d++) if (guarded[d]) next
           print header ":" NR ": " $0
         }
         /^ *# *endif/ { delete guarded[depth]; depth-- }' "$header"
     done)"

# A header includes only floors below its own, or its own floor.
floor_of() {
  case $1 in
    halfstep/error.hpp | halfstep/version.hpp | halfstep/numeric/*) echo 1 ;;
    halfstep/device/*) echo 2 ;;
    halfstep/compute/*) echo 3 ;;
    halfstep/tensor/*) echo 4 ;;
    halfstep/nn/* | halfstep/scaling/* | halfstep/optim/* | halfstep/data/*) echo 5 ;;
    halfstep/evidence/step_report.hpp) echo 5 ;; # the value that a trainer hands out
    halfstep/policy.hpp | halfstep/policy/*) echo 5 ;;
    halfstep/trainer.hpp | halfstep/trainer/*) echo 6 ;;
    halfstep/state/* | halfstep/evidence/*) echo 7 ;;
    *) echo 8 ;;
  esac
}
climbs=$(for header in $headers; do
  own=$(floor_of "$header")
  grep -oE '^ *# *include <halfstep/[^>]*' "$header" | sed 's/.*<//' | while read -r included; do
    if [ "$(floor_of "$included")" -gt "$own" ]; then
      echo "$header includes $included"
    fi
  done
done)
fault "A header includes a floor above its own:" "$climbs"

if [ $faults = 0 ]; then
  echo "$(echo "$headers" | wc -l) headers keep the rules."
fi
exit $faults
