-- expect: deadline answer
function F()
  local s = ('a'):rep(3e6)
  while true do string.find(s, ('a'):rep(1e6) .. 'b', 1, true) end
end
