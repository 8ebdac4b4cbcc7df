#!/bin/sh
# What people do before the parties of compose.yml can serve, on one machine and by one account, which is root: folders, certificates,
# tables, books, terms, acceptances. Everything lies in deploy/rehearsal; it belongs to the containers' account, and is made once.
#
#   COMPOSE='docker compose' sh deploy/rehearsal.sh        # or COMPOSE=podman-compose
#
# Between organisations each party does its own part, sees what it accepts, and compares fingerprints by phone (docs/deployment.md).
set -eu
umask 077
cd "$(dirname "$0")"
account=10001:10001
compose() { ${COMPOSE:-docker compose} -f compose.yml "$@"; }
party() { who=$1; shift; compose run --rm --no-deps "$who" "$@" </dev/null; }
theirs() { chown -R $account rehearsal; }

compose build bank-a
mkdir rehearsal rehearsal/bank-a-data rehearsal/bank-b-data rehearsal/postgres
for name in learner bank-a bank-b h0 h1 h2; do mkdir rehearsal/$name rehearsal/$name-state; done
theirs

# Who is who
party learner certs init /parley/authority --title "Rehearsal"
for name in learner bank-a bank-b h0 h1 h2; do
  party $name certs request $name --out /parley
  cp rehearsal/$name/$name.csr rehearsal/learner/authority/; theirs
  party learner certs issue /parley/authority/$name.csr --authority /parley/authority
  cp rehearsal/learner/authority/ca.crt rehearsal/learner/authority/ca.crl rehearsal/learner/authority/$name.crt rehearsal/$name/
done
for name in bank-a bank-b h0 h1 h2; do cp rehearsal/learner/learner.crt rehearsal/$name/; done
theirs

# The tables: made-up loans, of bank-a in its database, of bank-b in a file
cat > rehearsal/postgres/loans.sql <<END
CREATE TABLE loans (loan_no integer PRIMARY KEY, fico double precision, dti double precision, int_rate double precision);
INSERT INTO loans SELECT n, fico, dti, 30 - (fico - 600) / 12 + dti / 9 + 2 * random()
  FROM (SELECT n, 600 + 250 * random() AS fico, 45 * random() AS dti FROM generate_series(1, 5000) AS n) AS made_up;
END
od -An -N16 -tx1 /dev/urandom | tr -d ' \n' > rehearsal/postgres/password
printf 'postgres:5432:loans:anna:%s\n' "$(cat rehearsal/postgres/password)" > rehearsal/bank-a/pgpass
awk 'BEGIN { srand(1); print "loan_no,fico,dti,int_rate"; for (n = 1; n <= 4000; n++) { fico = 600 + 250 * rand(); dti = 45 * rand();
  printf "%d,%.1f,%.2f,%.3f\n", n, fico, dti, 30 - (fico - 600) / 12 + dti / 9 + 2 * rand() } }' > rehearsal/bank-b-data/loans.csv
theirs
chmod 755 rehearsal/postgres; chmod 644 rehearsal/postgres/loans.sql        # PostgreSQL reads these as an account of its own
compose up -d postgres
until compose exec -T postgres pg_isready -h 127.0.0.1 -U anna -d loans | grep -q 'accepting connections'; do sleep 1; done
party snapshot
test -d rehearsal/bank-a-data/loans                                        # not every compose passes exit codes on
compose stop postgres

# The terms: one noise for both banks, of three hosts whose keys are pinned
cat > rehearsal/terms.toml <<END
title = "Rehearsal: interest rates of two banks, one noise"
[model]
kind = "linear-regression"
target = "int_rate"
features = ["fico", "dti"]
bounds = { fico = [600, 850], dti = [0, 45], int_rate = [5, 40] }
centres = { fico = 725, dti = 22, int_rate = 23 }
scales = { fico = 72, dti = 13, int_rate = 6 }
intercept = true
[learning]
algorithm = "fedinfer"
learner = "learner"
[privacy]
noise = "shared"
mechanism = "gaussian"
delta = 1e-6
[[owners]]
name = "bank-a"
records = 5000
epsilon = 1.0
[[owners]]
name = "bank-b"
records = 4000
epsilon = 1.0
END
for name in h0 h1 h2; do
  key=$(party $name certs show /parley/$name.crt | sed -n 's/^fingerprint *//p' | tr -d '\r')
  printf '[[hosts]]\nname = "%s"\nkey = "%s"\n' $name "$key" >> rehearsal/terms.toml
done
for name in learner bank-a bank-b h0 h1 h2; do cp rehearsal/terms.toml rehearsal/$name/; done

# The books
hosts='[hosts]\nh0 = "h0:7444"\nh1 = "h1:7444"\nh2 = "h2:7444"\n'
theirs
party bank-a owner init /parley --name bank-a --table /data/loans --lifetime 3 --lifetime-delta 1e-5
party bank-b owner init /parley --name bank-b --table /data/loans.csv --lifetime 3 --lifetime-delta 1e-5
for name in bank-a bank-b; do printf "\n$hosts" >> rehearsal/$name/owner.toml; done
for name in h0 h1 h2; do
  party $name host init /parley --name $name
  for peer in h0 h1 h2; do
    [ $peer = $name ] || sed -i "/^\[peers\]/a $peer = \"$peer:7444\"" rehearsal/$name/host.toml
  done
done
printf '[identity]\nauthority = "ca.crt"\ncertificate = "learner.crt"\nkey = "learner.key"\nrevoked = "ca.crl"\n
[owners]\nbank-a = "bank-a:7443"\nbank-b = "bank-b:7443"\n\n'"$hosts" > rehearsal/learner/addresses.toml
theirs

# Acceptance, by people
for name in bank-a bank-b; do
  party $name owner accept /parley/terms.toml --owner /parley/owner.toml --certificate /parley/learner.crt --yes
done
for name in h0 h1 h2; do
  party $name host accept /parley/terms.toml --host /parley/host.toml --certificate /parley/learner.crt --yes
done
