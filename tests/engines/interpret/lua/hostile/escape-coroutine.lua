-- expect: script
function F() return coroutine.wrap(function() while true do end end)() end
