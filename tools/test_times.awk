#!/usr/bin/awk -f
# test_times.awk - Passes ctest's output on, and ends it with the five tests that took longest.
{ print; fflush() }
/Test +#[0-9]+: .* sec$/ { time[$4] = $(NF - 1) }
END {
    for (n = 0; n < 5; n++) {
        longest = ""
        for (name in time)
            if (longest == "" || time[name] + 0 > time[longest] + 0) longest = name
        if (longest == "") exit
        slowest = slowest sprintf("%s %s %.1f s", n ? "," : "", longest, time[longest])
        delete time[longest]
    }
    print "slowest:" slowest
}
