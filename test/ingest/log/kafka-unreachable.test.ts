import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { kafkaAccess } from '../../../cli/kafka-access.ts';
import { loadConfig } from '../../../config.ts';
import { kafkaError, openKafka } from '../../../ingest/log/kafka.ts';
import { kafkaLog } from '../../../ingest/log/kafka-log.ts';
import { event } from '../../store/support/events.ts';

describe('brokers that cannot be reached', () => {
  let server: Server | null = null;
  afterEach(() => server?.close());

  /** Takes a connection and ends it at once, as a broker with TLS does to a client without TLS. */
  const hangingUp = async (): Promise<string> => {
    server = createServer((socket) => socket.once('data', () => socket.destroy())).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `127.0.0.1:${(server.address() as { port: number }).port}`;
  };
  const logAt = (brokers: string) =>
    kafkaLog(openKafka({ brokers, topic: 'team', tls: false, sasl: null }), { partitions: 1 });

  it('tell an append that it was not acknowledged, and a look only why', async () => {
    const log = logAt('127.0.0.1:1');
    try {
      await expect(log.append([event('episode.started', { episode_id: 'e1' })])).rejects.toThrow(
        /^The topic team cannot be reached now \(.*ECONNREFUSED 127\.0\.0\.1:1\); check the setting kafka_brokers, and whether they run\. Nothing of this was acknowledged\. Send it again\.$/,
      );
      await expect(log.partitions!()).rejects.toThrow(
        /ECONNREFUSED 127\.0\.0\.1:1\); check the setting kafka_brokers, and whether they run\.$/,
      );
    } finally {
      await log.close();
    }
  });

  it('name the settings of the connection where they close it', async () => {
    const log = logAt(await hangingUp());
    try {
      await expect(log.partitions!()).rejects.toThrow(/; check kafka_tls and kafka_sasl_mechanism\.$/);
    } finally {
      await log.close();
    }
  });

  it('name the login where it was refused, and the authority where a certificate was', () => {
    const messageOf = (text: string): string => kafkaError(new Error(text), 'team').message;
    expect(messageOf('SASL SCRAM SHA512 authentication failed: invalid credentials')).toContain(
      'check kafka_sasl_mechanism, kafka_username and kafka_password',
    );
    expect(messageOf('Connection error: self-signed certificate in certificate chain')).toContain(
      'NODE_EXTRA_CA_CERTS',
    );
  });

  it('are not asked with a user whose way to log in is not named', () => {
    const config = loadConfig({}, { KAFKA_USERNAME: 'team', KAFKA_PASSWORD: 'secret' }, '/nowhere/troupe.yaml');
    expect(() => kafkaAccess(config)).toThrow(/kafka_username is set, so kafka_sasl_mechanism should be set too/);
  });
});
