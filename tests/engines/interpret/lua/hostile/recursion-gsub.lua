-- expect: script memory deadline
local function deep() return (string.gsub('a', 'a', deep)) end
function F() return deep() end
