#!/bin/sh
# Certificates by OpenSSL instead of `parley certs` (docs/roles/authority.md), in the folder where it is started:
#
#   sh openssl-ca.sh bank-a bank-b learner
#
# All on one machine, as an example: in practice each party makes its own key and request. After each
# `openssl ca ... -revoke NAME.crt` the last command writes the list anew; its number grows by itself.
set -e
cat > ca.cnf <<END
[req]
distinguished_name = dn
prompt = no
[dn]
CN = Loan consortium, issuing CA
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
[ca]
default_ca = ours
[ours]
database = issued.txt
serial = serial
crlnumber = crlnumber
new_certs_dir = .
default_md = sha256
default_days = 365
default_crl_days = 90
policy = names
[names]
commonName = supplied
END
touch issued.txt; echo 01 > serial; echo 01 > crlnumber
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ca.key
openssl req -x509 -config ca.cnf -extensions authority -key ca.key -days 3650 -out ca.crt
for name in "$@"; do
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $name.key
  openssl req -new -config ca.cnf -subj "/CN=$name" -key $name.key -out $name.csr
  printf 'keyUsage = critical, digitalSignature\nextendedKeyUsage = serverAuth, clientAuth\nsubjectAltName = DNS:%s\n' $name > $name.ext
  openssl ca -batch -notext -config ca.cnf -cert ca.crt -keyfile ca.key -extfile $name.ext -in $name.csr -out $name.crt
  for purpose in sslserver sslclient; do openssl verify -partial_chain -CAfile ca.crt -purpose $purpose $name.crt; done
done
openssl ca -config ca.cnf -cert ca.crt -keyfile ca.key -gencrl -out ca.crl
