-- expect: memory deadline
function F() local s = 'x' while true do s = s .. s end end
