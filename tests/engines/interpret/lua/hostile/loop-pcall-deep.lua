-- expect: deadline
local function nest(n)
  if n == 0 then while true do end end
  while true do pcall(nest, n - 1) end
end
function F() nest(150) end
