# cmake -DOUT=x.cc -DFILES=a;b -P embed.cmake: a C++ file with the contents of each file as a constant of thermocline::embedded, named
# after the file with '.' as '_'.
set(text "// Written by cmake/embed.cmake.\nnamespace thermocline::embedded {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  string(MAKE_C_IDENTIFIER "${name}" name)
  file(READ "${file}" contents)
  string(APPEND text "extern const char* const ${name};\nconst char* const ${name} = R\"~~~~(${contents})~~~~\";\n")
endforeach()
string(APPEND text "}  // namespace thermocline::embedded\n")
file(WRITE "${OUT}" "${text}")
