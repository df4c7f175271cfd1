-- expect: answer
function F(a)
  local x = a.x
  for _, t in ipairs({a, {1, b = 2}, string}) do
    for k, v in pairs(t) do if type(k) == 'table' then return {k = 'found'} end end
    for k, v in next, t do if type(k) == 'table' then return {k = 'found'} end end
  end
  return {}
end
