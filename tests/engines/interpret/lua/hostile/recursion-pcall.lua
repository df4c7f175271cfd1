-- expect: script memory deadline answer
local function deep(n) return select(2, pcall(deep, n + 1)) end
function F() deep(1) return {} end
