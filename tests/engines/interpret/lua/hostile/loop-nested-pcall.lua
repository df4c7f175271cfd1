-- expect: deadline
local function nest(n) while true do pcall(nest, n + 1) end end
function F() nest(1) end
