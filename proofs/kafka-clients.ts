/** Clients of proofs, which have nothing to do with ours: for producing strange records, and for looking. They log in as Troupe does. */
import kafkajs from 'kafkajs';
import { kafkaAccess } from '../cli/kafka-access.ts';
import { loadConfig } from '../config.ts';
import type { KafkaOptions } from '../ingest/log/kafka.ts';

/** TLS and login of the brokers in `KAFKA_BROKERS`, from the same variables that Troupe reads. */
export const accessOf = (env: Readonly<Record<string, string | undefined>>): Pick<KafkaOptions, 'tls' | 'sasl'> =>
  kafkaAccess(loadConfig({}, env));

export function clientOf(brokers: string): kafkajs.Kafka {
  const { tls, sasl } = accessOf(process.env);
  return new kafkajs.Kafka({
    clientId: 'proof',
    brokers: brokers.split(','),
    ssl: tls,
    ...(sasl === null ? {} : { sasl: sasl as kafkajs.SASLOptions }),
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { initialRetryTime: 50, retries: 8 },
  });
}

export async function asAdmin<T>(brokers: string, work: (admin: kafkajs.Admin) => Promise<T>): Promise<T> {
  const admin = clientOf(brokers).admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}
