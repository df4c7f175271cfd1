-- expect: answer
function F()
  local _, e = pcall(function() local t = {} return t < t end)
  local _, f = pcall(error, {__tostring = function() while true do end end})
  return {type(e), type(f), tostring(f)}
end
