-- expect: script memory deadline
local function deep() table.sort({1, 2, 3}, deep) end
function F() deep() end
