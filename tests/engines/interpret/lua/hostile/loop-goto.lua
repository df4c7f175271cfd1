-- expect: deadline
function F() ::again:: goto again end
