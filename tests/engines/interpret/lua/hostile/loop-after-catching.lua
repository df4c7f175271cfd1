-- expect: deadline
function F()
  local ok = pcall(function() while true do end end)
  while true do end
end
