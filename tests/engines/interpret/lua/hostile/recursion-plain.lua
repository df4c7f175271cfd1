-- expect: script memory
local function deep(n) return 1 + deep(n + 1) end
function F() return deep(1) end
