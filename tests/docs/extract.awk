# awk -v page=<name for messages> -v prefix=<output prefix> -f extract.awk <page>
#
# Writes each ```cpp block of a Markdown page to <prefix>_<n>.cpp. A block that includes nothing is compiled behind
# #include <halfstep/halfstep.hpp> and using namespace halfstep; and where it is no program, in a namespace
# block_<page>_<n>, so that such blocks can share a unit. Comments in the page, which a reader does not see, say more:
#
#   <!-- fragment -->      the next block is not compiled
#   <!-- continued -->     the next block belongs to the same file as the block before it
#   <!-- before            the lines up to --> are put in front of the next block
#   <!-- after             the lines up to --> are put behind the block before

function start_unit() {
  if (continued && units) { continued = 0; return }
  continued = 0
  units++
  has_include[units] = 0
}
function add(line) {
  text[units] = text[units] line "\n"
  if (line ~ /^#include/) has_include[units] = 1
}
function mark(number) { add("#line " number " \"" page "\"") }

/^<!-- *fragment *-->/ { fragment = 1; next }
/^<!-- *continued *-->/ { continued = 1; next }
/^<!-- *before *$/ { start_unit(); prepared = 1; mark(NR + 1); state = "hidden"; next }
/^<!-- *after *$/ {
  if (!units) { print page ":" NR ": 'after' with no block before it" > "/dev/stderr"; exit 1 }
  mark(NR + 1); state = "hidden"; next
}
state == "hidden" && /^-->/ { state = ""; next }
state == "hidden" { add($0); next }
state == "" && /^```(cpp|c\+\+)/ {
  if (fragment) { fragment = 0; state = "skip"; next }
  if (!prepared) start_unit()
  prepared = 0
  mark(NR + 1)
  state = "block"
  next
}
state == "" && /^```/ { state = "skip"; next }
(state == "block" || state == "skip") && /^```/ { state = ""; next }
state == "block" { add($0) }

END {
  for (unit = 1; unit <= units; unit++) {
    file = prefix "_" unit ".cpp"
    if (!has_include[unit])
      printf "#include <halfstep/halfstep.hpp>\nusing namespace halfstep;\n" > file
    shared = !has_include[unit] && text[unit] !~ /\n(int|auto) main\(/
    name = prefix "_" unit
    gsub(/.*\/|[^A-Za-z0-9_\/]/, "", name)
    if (shared) print "namespace block_" name " {" > file
    printf "%s", text[unit] > file
    if (shared) print "}" > file
    close(file)
  }
}
