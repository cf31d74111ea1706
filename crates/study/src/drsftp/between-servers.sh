"$0" serve "$1" --listen "$FAIRWIND_HOST:2121" --run-as root --user bench \
    --foreign-peer "$FAIRWIND_PEER/32" $2 &
server=$!
for _ in $(seq 100); do
    "$0" ls "ftp://$FAIRWIND_HOST:2121/" >/dev/null 2>&1 && break
    sleep 0.1
done
"$0" copy "ftp://$FAIRWIND_PEER/$3" "ftp://bench@$FAIRWIND_HOST:2121/$3" $4
status=$?
kill $server
exit $status
