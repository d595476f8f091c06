/** Connection options of the brokers, from the settings, without loading the client. */
import type { Config } from '../config.ts';
import { TroupeError } from '../errors.ts';
import type { KafkaOptions } from '../ingest/log/kafka.ts';

/** @throws TroupeError `config_invalid` where a way to log in is named without a user and a password, or either of them without it. */
export function kafkaAccess(config: Config): Pick<KafkaOptions, 'tls' | 'sasl'> {
  const { kafka_sasl_mechanism: mechanism, kafka_username: username, kafka_password: password } = config;
  const tls = config.kafka_tls === 'on';
  if (mechanism === null && username === null && password === null) return { tls, sasl: null };
  if (mechanism === null)
    throw new TroupeError(
      'config_invalid',
      `${username === null ? 'kafka_password' : 'kafka_username'} is set, so kafka_sasl_mechanism should be set too: plain, scram-sha-256 or scram-sha-512.`,
      { field: 'kafka_sasl_mechanism' },
    );
  if (username !== null && password !== null)
    return { tls, sasl: { mechanism: mechanism as SaslMechanism, username, password } };
  throw new TroupeError(
    'config_invalid',
    `kafka_sasl_mechanism is ${mechanism}, so kafka_username and kafka_password should be set too.`,
    { field: username === null ? 'kafka_username' : 'kafka_password' },
  );
}

type SaslMechanism = NonNullable<KafkaOptions['sasl']>['mechanism'];
