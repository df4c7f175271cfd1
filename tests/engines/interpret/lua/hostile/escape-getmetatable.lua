-- expect: script
function F() getmetatable('').__index = nil end
