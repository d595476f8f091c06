export * from '../ingest/recorder.ts';
