export * from '../api/client/client.ts';
