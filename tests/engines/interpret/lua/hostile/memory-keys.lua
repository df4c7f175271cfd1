-- expect: memory deadline
function F() local t, i = {}, 0 while true do i = i + 1 t['k' .. i] = i end end
